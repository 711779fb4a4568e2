"""The console: pages for people, served by the broker and drawn in the browser from its REST.

`static/` has what the browser gets: HTML, CSS and modules, written by hand and served as they are. They fetch
nothing from elsewhere, and what they show comes from the routes that every other client has.

files  loads the files of the console, each with its kind and its tag
pages  serves the console's files, with the headers that keep other sites out
"""
