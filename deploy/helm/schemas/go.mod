module tempomat/deploy/helm/schemas

go 1.26.0
