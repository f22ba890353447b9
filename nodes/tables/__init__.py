"""Tables: where writers put sequences and datasets draw them. One contract, several stores."""
