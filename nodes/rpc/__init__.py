"""Calls between nodes: listed methods of a server, over Unix sockets on one machine and mutual TLS between machines."""
