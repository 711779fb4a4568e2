"""scanners"""
