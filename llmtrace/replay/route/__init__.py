"""Requests onto instances, each with a cache of its own: what would a router have made of this trace?"""
