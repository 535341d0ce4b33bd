"""The local page of ``viewloom app``: routes, templates, and jobs that run the commands."""
