"""How the site writes what Django would write in a language's own way."""
