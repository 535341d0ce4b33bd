"""Block coordinate descent on the paper's objective, over shards of samples."""
