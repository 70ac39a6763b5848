"""What does a request cost, and how many does a server answer?"""
