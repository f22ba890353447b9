"""Devices and hosts: who acts, who learns, and what the hosts of one program agree on."""
