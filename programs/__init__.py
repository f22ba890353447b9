"""Programs: functions that wire nodes into a Launchpad program, and what launches, watches and shows them."""
