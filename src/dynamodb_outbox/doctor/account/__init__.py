"""An inventory of an account, or of any engine that speaks AWS's APIs: asked for by calls that change nothing."""
