"""The HTTP edge: REST in Pulsar's paths and words, HTTP lookup, metrics, health.

One file a resource, each with a `router`; `app.py` puts them together. Handlers translate and ask
the broker; they decide nothing. Errors are `{"reason": …}` with the status Pulsar has for them.

absent        each with its reason, and a clear answer
app           every resource's router, and how errors are said over HTTP
audit         one line for everything that an operator changes, with what was before and after
bodies        read whole, within a limit of size and time, and JSON without room for two readings
edge          what every request passes before a route sees it: limits, and the last resort behind it
express       the answer to a plain lookup by index as bytes, before the framework hears of the request
hosts         by which names this edge may be called, and from which pages
metrics/      the broker's state as Prometheus' text and as JSON
models        what the description for programs says of them, field by field
name_lists    sent in pieces, between which others have their turn
raw_path      names in it are encoded as a form's fields
reference     the page about REST, made from the routes' own words
request       what handlers take from a request: the broker, and names made of path parts
resources/    one router a resource, in the paths and words of Pulsar's admin API
route_access  what a route needs: one word beside each route, checked before the route runs
serve         the application on a socket, inside the broker's own loop
shortcut      a shortcut past the framework for the one route that automation asks a thousand times a
"""
