"""The workload generator."""
