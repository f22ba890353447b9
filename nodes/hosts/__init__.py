"""Devices and hosts: which act, which learn, and what the hosts of one program agree on."""
