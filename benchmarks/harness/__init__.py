"""What the benchmarks share: data and queries, truth, load, commands in processes, figures from samples."""
