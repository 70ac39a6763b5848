"""What does a search by text take, its embedding and its chunks on disk?"""
