"""A staging system and 24 tools over it, twelve of which have a fault: what `segue chaos` is measured with."""
