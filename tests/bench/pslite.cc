// SPDX-License-Identifier: ISC
// One worker and one server of ps-lite. The worker pushes one key with a vector of floats, which the server adds to
// its own, and then pulls it; each operation is complete before the next one begins. After three of each that do
// not count, the worker prints the seconds of a push and of a pull, as means of COUNT.
//
// usage: pslite BYTES COUNT, in the environment that ps-lite asks for (DMLC_ROLE and others)
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "ps/ps.h"

namespace {

std::vector<float> parameters;

void handle(const ps::KVMeta &request, const ps::KVPairs<float> &data, ps::KVServer<float> *server)
{
	ps::KVPairs<float> answer;

	if (request.push) {
		if (parameters.size() < data.vals.size())
			parameters.resize(data.vals.size());
		float *w = parameters.data();
		const float *g = data.vals.data();
		for (size_t i = 0; i < data.vals.size(); i++)
			w[i] += g[i];
	} else {
		answer.keys = data.keys;
		answer.vals = ps::SArray<float>(parameters.data(), parameters.size());
		answer.lens = ps::SArray<int>(1, static_cast<int>(parameters.size()));
	}
	server->Response(request, answer);
}

double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void measure(size_t n, int count)
{
	ps::KVWorker<float> worker(0, 0);
	ps::SArray<ps::Key> keys(1, 0);
	ps::SArray<float> gradient(n, 1e-6f), pulled(n, 0);
	ps::SArray<int> lens(1, static_cast<int>(n));

	for (int i = 0; i < 3; i++) {
		worker.Wait(worker.ZPush(keys, gradient, lens));
		worker.Wait(worker.ZPull(keys, &pulled, &lens));
	}
	double begin = now();
	for (int i = 0; i < count; i++)
		worker.Wait(worker.ZPush(keys, gradient, lens));
	double middle = now();
	for (int i = 0; i < count; i++)
		worker.Wait(worker.ZPull(keys, &pulled, &lens));
	printf("%.9g %.9g\n", (middle - begin) / count, (now() - middle) / count);
	fflush(stdout);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 3)
		return 64;
	ps::Start(0);
	if (ps::IsServer()) {
		auto *server = new ps::KVServer<float>(0);
		server->set_request_handle(handle);
		ps::RegisterExitCallback([server]() { delete server; });
	}
	if (ps::IsWorker())
		measure(strtoull(argv[1], nullptr, 10) / sizeof(float), atoi(argv[2]));
	ps::Finalize(0, true);
	return 0;
}
