"""Explanations of jobs and pods, made from what sessions leave behind."""
