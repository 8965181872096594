// SPDX-License-Identifier: ISC
// onnx.js MODEL: evaluates an ONNX model by npm's onnxruntime-node. Inputs come as JSON from standard input,
// {name: {type, dims, data}}, with null for a number that is none, and outputs go to standard output so.
const fs = require("fs");
const ort = require("onnxruntime-node");

const arrays = {
  float32: (x) => Float32Array.from(x, (v) => (v === null ? NaN : v)),
  float64: (x) => Float64Array.from(x, (v) => (v === null ? NaN : v)),
  int64: (x) => BigInt64Array.from(x, (v) => BigInt(v)),
  string: (x) => x,
};

async function main() {
  const given = JSON.parse(fs.readFileSync(0, "utf8"));
  const session = await ort.InferenceSession.create(process.argv[2]);
  const feeds = {};
  for (const [name, v] of Object.entries(given))
    feeds[name] = new ort.Tensor(v.type, arrays[v.type](v.data), v.dims);
  const results = await session.run(feeds);
  const out = {};
  for (const [name, v] of Object.entries(results))
    out[name] = { type: v.type, dims: v.dims, data: Array.from(v.data, (x) => (typeof x === "bigint" ? Number(x) : x)) };
  process.stdout.write(JSON.stringify(out));
}

main().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
