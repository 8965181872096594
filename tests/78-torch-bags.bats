#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# PyTorch: bags of embeddings whose rows are on the servers.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/torch

setup_file() {
	start_torch_forks
}

teardown_file() {
	stop_torch_forks
}

setup() {
	setup_torch torch_bags.py
}

teardown() {
	teardown_dir
}

@test "bags train what torch.nn.EmbeddingBag trains, by three rules; named rows are those of the step" {
	trains "same sgd"
	has .steps 100
	trains "same rowwise prefetch"
	# Rows that were named a step ahead give the same bits, also where they have travelled before.
	trains "same adagrad" --set deterministic=true
	digest=$(res .model_digest)
	trains "same adagrad prefetch" --set deterministic=true --set pull_delta=true --set servers=2
	[ "$(res .model_digest)" = "$digest" ]
}

@test "inputs of all forms, state_dict, hashed ids, and what is refused" {
	trains shapes
}

@test "ps.prefetch of dealt and of leased examples gives each worker its own" {
	trains tasks
	each_four_times
	trains "tasks leased" --set sync=ssp:1
	each_four_times
}

@test "the example of a recommender learns from files of Criteo's form, and of libffm's" {
	# The label follows from the first category; some values are missing.
	write_clicks() {
		awk -v seed="$1" 'BEGIN { srand(seed)
			for (n = 0; n < 300; n++) {
				c = int(rand() * 8)
				line = c % 2
				for (k = 0; k < 13; k++) line = line "\t" (rand() < 0.2 ? "" : int(rand() * 9))
				line = line "\t" sprintf("%08x", c + 3000000000)
				for (k = 1; k < 26; k++) line = line "\t" (rand() < 0.2 ? "" : sprintf("%08x", rand() * 30))
				print line } }'
	}
	write_clicks 1 >train.tsv
	write_clicks 2 >test.tsv
	for part in train test; do
		awk -F '\t' -v digits=0123456789abcdef '{ line = $1
			for (k = 2; k <= NF; k++) if ($k != "") {
				low = index(digits, substr($k, 8)) + 100 * index(digits, substr($k, 7, 1))
				line = line " " (k - 2) ":" (k < 15 ? $k : low) ":1" }
			print line }' $part.tsv >$part.ffm
	done
	SCRIPT=$BATS_TEST_DIRNAME/../contrib/examples/torch/dlrm.py
	for form in tsv ffm; do
		trains "train.$form test.$form --batch 15 --epochs 3 --lr 0.02"
		at_least .eval.auc 0.95
		has .examples 900
	done
}

# Each example was used once in each of the four epochs.
each_four_times() {
	/usr/bin/python3 - <<-'END'
	import numpy as np
	seen = np.concatenate([np.load(f"seen.{r}.npy") for r in range(2)]).astype(int)
	assert (np.bincount(seen, minlength=203) == 4).all() and len(seen) == 812
	END
}
