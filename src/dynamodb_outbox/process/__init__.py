"""What programs of this library need as processes, whatever their work is: stop, end, leave a trace. Standard library.

The fault bus, the local event sources and the engine run as processes of their own. They are asked to stop by signals
(`stop`), end with the process that started them (`lifeline`), are ended with all that they started (`ending`), and what
they saw outlives them (`journal`).
"""
