"""FILES <-> ROWS -> BATCHES: readers, writers, batching; never imports model, never torch."""
