"""The CronJob controller."""
