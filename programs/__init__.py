"""Programs: functions that make `Program` values, with the code that launches, supervises and shows them."""
