"""One file a task: labels, features, decoding, metric; pure functions that know no Bundle."""
