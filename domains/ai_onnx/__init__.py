"""Converters of the default domain."""
