"""Two stages in one call: cross-train, then train a fresh network that begins with what is known of each row."""
