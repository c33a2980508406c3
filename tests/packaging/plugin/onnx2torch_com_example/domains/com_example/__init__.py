"""Converters of com.example."""
