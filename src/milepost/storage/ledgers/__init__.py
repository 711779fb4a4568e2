"""ledgers"""
