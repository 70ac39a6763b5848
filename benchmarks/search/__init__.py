"""How fast is a search by vector, and how does that grow?"""
