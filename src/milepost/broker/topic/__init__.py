"""topic"""
