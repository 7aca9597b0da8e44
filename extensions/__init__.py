"""Techniques, in folders by what they change; each file is one, and can be read alone."""
