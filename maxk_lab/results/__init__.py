"""Results: runs read as tables of numbers, and two runs compared. Changes no record."""
