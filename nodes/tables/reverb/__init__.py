"""Tables on a Reverb server, for nodes that are processes of their own."""
