"""What ``durable_doctor`` examines: a file for each part of the patient."""
