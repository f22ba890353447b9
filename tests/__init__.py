"""A package, since pgx installs one called `tests` too: the one that is nearer on the path must be regular to win."""
