"""consuming"""
