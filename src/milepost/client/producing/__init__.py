"""producing"""
