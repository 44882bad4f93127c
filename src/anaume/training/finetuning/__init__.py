"""Fine-tuning: labelled examples and a bundle become a model of a task."""
