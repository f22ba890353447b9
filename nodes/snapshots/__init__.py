"""State that outlives a process: numbered snapshots with manifests, and the monitor's counters."""
