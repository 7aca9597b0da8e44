"""The whole model next to the reference, state by state: where does it differ first?"""
