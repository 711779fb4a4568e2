"""The HTTP edge: REST in Pulsar's paths and words, HTTP lookup, metrics, health.

One file a resource, each with a `router`; `app.py` puts them together. Handlers translate and ask
the broker; they decide nothing. Errors are `{"reason": …}` with the status Pulsar has for them.

absent        routes of Apache Pulsar that Milepost does not have, each with the reason it answers
app           puts all routers together, and turns errors into HTTP answers
audit         what an operator asks of the broker, and the audit log
bodies        reads request bodies: limits of size and time, strict JSON
console/      the console: pages for people, drawn in the browser from this REST
edge          what every request passes first: limits, timeouts, the last resort for errors
express       answers a plain lookup by index before the framework sees the request
hosts         which host names and web pages may call this server, and by which URL it is reached
metrics/      `/metrics` for Prometheus, and broker metrics as JSON
models        the JSON models of the broker's own values, for the OpenAPI description
name_lists    sends long lists of names in pieces
raw_path      decodes names in request paths as upstream does
recent        answers that are up to a second old, for clients that say they would take them
reference     makes docs/rest.md from the docstrings of the routes
request       what handlers take from a request: the broker, topic and namespace names
resources/    one router a resource of the admin API: begin here to add or change a route
route_access  the right that each route needs, checked before it runs
serve         serves the application on a socket, on the broker's loop
shortcut      routes the lookup by index past the framework's search for a route
workers/      requests where several workers serve as one broker: any of them answers all
"""
