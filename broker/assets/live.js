// Live numbers: events of /api/v1/ws into the elements that wait for them.
