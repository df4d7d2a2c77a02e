module tempomat/deploy/package/ask

go 1.26.0
