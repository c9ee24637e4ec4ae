"""The garbage collector: deletes finished Jobs when their time to live has passed."""
