"""subscription"""
