"""The measuring analyses, one per command: parameters, a plan per part, a lawful combine, a finish."""
