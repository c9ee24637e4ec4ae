"""Commands that ask a running core: schedule, explain, top and watch."""
