"""The controller that deletes finished Jobs when their time to live has passed."""
