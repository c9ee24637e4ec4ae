"""The controllers of JobFlows and JobTemplates."""
