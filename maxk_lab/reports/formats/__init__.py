"""The formats of a report: a catalogue of them, and a module for each."""
