"""How good are the answers: ranks, recall, languages, wrong letters, questions without an answer?"""
