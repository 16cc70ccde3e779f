"""One step: dampings, what it observes, how it is judged, and what status a point has. Arrays alone."""
